"""What releases cost: curves, costs, composition, mechanisms and the ledger."""
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure
from dputils.accounting.ledger import BudgetExceeded, Ledger

__all__ = ["Approximate", "BudgetExceeded", "Gaussian", "Ledger", "Pure", "ZCDP"]
