from rlxlang.lowp import *
