"""A Grid without a network: its nodes answer in this process, by the functions of a ClientApp."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

__all__ = ["HomeGrid"]

Answer = Callable[[Message, Context], Message]


class HomeGrid(Grid):
    """``answers`` maps a message type to a function of (message, context); node ids are as arbitrary as Flower's."""

    def __init__(self, nodes: Mapping[int, int], answers: Mapping[str, Answer]) -> None:
        """``nodes`` maps a node id to its partition."""
        self.nodes = dict(nodes)
        self._answers = dict(answers)
        self.sent: list[Message] = []
        self.broken: set[int] = set()

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return [self._answer(message) for message in messages]

    def _answer(self, message: Message) -> Message:
        self.sent.append(message)
        node = message.metadata.dst_node_id
        if node in self.broken:
            return Message(Error(code=0, reason="the process has ended"), reply_to=message)
        partition = {"partition-id": self.nodes[node], "num-partitions": len(self.nodes)}
        context = Context(0, node, partition, RecordDict(), {})
        return self._answers[message.metadata.message_type](message, context)
