"""What releases cost: curves and conversions, costs, composition, mechanisms and the ledger.

A file imports only from those before it: rounding, curves, renyi, losses, costs, composition,
accounts, mechanism, partition, ledger. The package shows what a release needs.
"""

from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure, Renyi
from dputils.accounting.ledger import BudgetExceeded, Ledger
from dputils.accounting.mechanism import Mechanism

__all__ = [
    "Approximate",
    "BudgetExceeded",
    "Gaussian",
    "Ledger",
    "Mechanism",
    "Pure",
    "Renyi",
    "ZCDP",
]
