"""Speed and memory of onlinegcp against a C++ twin and its rivals, in one run, on one thread."""
