"""A Flower app with a model of its own: softmax regression on handwritten digits."""
