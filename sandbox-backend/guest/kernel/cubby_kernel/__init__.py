# SPDX-License-Identifier: Apache-2.0
"""The code interpreter of a sandbox: IPython and bash behind a small HTTP server.

Processes, each of one thread:

  server      asyncio: HTTP, contexts, one run at a time in each (server, web, routes, contexts, context)
  zygote      IPython, numpy, pandas and matplotlib imported and used once; forks (zygote, warm)
  a context   forked from the zygote: an IPython shell (worker, shell), or bash in its place (bash)

The server and a context speak over a socket in frames of JSON (frames), bash in lines. The context's
descriptors 1 and 2 are pipes that the server reads, so whatever a run starts is heard too. A message
that comes over the socket was written after the output that precedes it: the server empties both
pipes before it passes the message on, which keeps the order without waiting for anything.

In a template's snapshot the server, the zygote and one unused context are running. A context draws new
random seeds when it begins, and again when the machine's identity is another one (identity, seeds):
two sandboxes of one snapshot share no random number.
"""
