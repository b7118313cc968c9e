"""A proxy on the loopback interface that writes down what passes: `lore record`."""
