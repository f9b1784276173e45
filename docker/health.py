#!/opt/zofedht/bin/python
"""health.py ADDRESS: exit code 0 if what listens there is well, else 1. For health checks.

HOST:PORT is a gRPC health service, which must answer SERVING; http://... is a page, which must answer.
"""

import sys


def grpc_answer(address: str) -> str:
    """Return the word of a gRPC health service, or what is wrong."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    try:
        with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
    except grpc.RpcError as error:
        return str(error.details())
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def page_answer(address: str) -> str:
    """Return SERVING where the page answers, or what is wrong."""
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=5):
            return "SERVING"
    except OSError as error:
        return str(error)


if __name__ == "__main__":
    said = (page_answer if sys.argv[1].startswith("http") else grpc_answer)(sys.argv[1])
    print(said)
    sys.exit(said != "SERVING")
