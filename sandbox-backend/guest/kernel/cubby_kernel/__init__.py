# SPDX-License-Identifier: Apache-2.0
"""The Python kernel of a sandbox: IPython, bash and Node.js behind a small HTTP server.

Its processes, each with one thread:

  server      asyncio: HTTP, contexts, one run at a time in each (server, web, routes, contexts, context)
  zygote      IPython, numpy, pandas and matplotlib imported and used once; forks (zygote, warm)
  a context   forked from the zygote: an IPython shell (worker, shell), or replaced by bash (bash)
              or by Node.js (node, javascript/)

The server and a Python context exchange JSON frames over a socket (frames); bash uses lines. The context's
descriptors 1 and 2 are pipes that the server reads, so the server also gets the output of programs that a
run starts. A context writes its output before the message that follows it. The server therefore empties
both pipes before it passes a message on, which keeps the order without any wait.

In a saved template the server, the zygote and one unused context are running. A context draws new random
seeds when it begins, and again when the machine has a new identity (environment, seeds). So sandboxes of
one template share no random numbers.
"""
import os
import sys

# What the kernel needs of its own in the template of an image. The image's own packages go before it.
_PACKAGES = "/usr/lib/cubby/packages"
if os.path.isdir(_PACKAGES) and _PACKAGES not in sys.path:
    sys.path.append(_PACKAGES)
