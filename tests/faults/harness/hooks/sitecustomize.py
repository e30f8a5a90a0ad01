"""What a process of a faulty run does before anything else: see tests/faults/harness/broken.py.

On the path of workers and of their keepers only where the run asks for it.
"""

from tests.faults.harness import broken

broken.apply()
