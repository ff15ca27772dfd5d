from rlxlang.training import *
