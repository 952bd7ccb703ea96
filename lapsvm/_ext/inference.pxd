"""The check of a loss before the C floor works with it."""

from lapsvm._ext.rank_losses cimport RankLoss


cdef int check_loss(const RankLoss* loss, Py_ssize_t n_discounts) except -1
