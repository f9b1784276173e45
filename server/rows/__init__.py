"""What single rows of the table keep on the server, each a frozen part of its state.

Others use ``server_step`` (momentum, adam and its kin), ``controls`` (control variates), ``pool`` (sums over the
candidates of fedkseed), ``second_order`` (curvature, pairs of a quasi-Newton step), ``learnt_shrink`` (the stiff
direction that slopes teach), ``stiff`` (along which known directions those of a step shrink) and ``surrogates`` (what
clients of fzoos have seen of F).
"""
