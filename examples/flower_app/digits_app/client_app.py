"""A node: its rows never leave it; what it sends is a move of the model."""

from flwr.clientapp import ClientApp

from digits_app.task import loss_of
from zofedht import flower

app = ClientApp()


@app.train()
def train(message, context):
    """Take the zeroth-order steps of a round."""
    loss, rows = loss_of(context.node_config["partition-id"], context.node_config["num-partitions"])
    return flower.train(message, context, loss, samples=rows)


@app.evaluate()
def evaluate(message, context):
    """Evaluate the model on all rows of this node."""
    loss, rows = loss_of(context.node_config["partition-id"], context.node_config["num-partitions"])
    return flower.evaluate(message, context, loss, samples=rows)
