#!/opt/zofedht/bin/python
"""health.py HOST:PORT: exit code 0 if the gRPC health service there answers SERVING, else 1. For health checks."""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

try:
    with grpc.insecure_channel(sys.argv[1], [("grpc.enable_http_proxy", 0)]) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
except grpc.RpcError as error:
    print(error.details())
    sys.exit(1)
print(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
sys.exit(answer.status != health_pb2.HealthCheckResponse.SERVING)
