"""The ``kernelfields`` command: train, predict, evaluate, inspect, certify, convert, reproduce."""
