"""What a round costs the server: many clients, Flower, replays, and whoever watches the page."""
