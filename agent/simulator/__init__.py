"""A simulated fleet of vLLM engines: the world that demo, tests and benchmarks are measured against.

The pure part (`engine`, `fleet` and what they are made of) is given the time; `server` puts it behind HTTP.
"""
