"""A network of its own for one job: a machine for each worker, a switch, and rules.

Everything here lives in network namespaces that have no name: a file descriptor of the
supervisor's holds each of them, so that they are gone with the supervisor, however it ends.
Nothing is added to the host's own network, and its addresses and firewall play no part.
"""

from recoverybench.network.network import Machine, Network

__all__ = ["Machine", "Network"]
