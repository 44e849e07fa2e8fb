def gemm(a, b, *, out=_default_out, out_dtype=_default_out_dtype, c=_default_c, alpha=_default_alpha, beta=_default_beta, scale_a=_default_scale_a, scale_b=_default_scale_b, scale_result=_default_scale_result, amax=_default_amax, bias=_default_bias, activation=_default_activation, fast_accum=_default_fast_accum, tactic=_default_tactic):
    if _tracing() or _modes():
        return _traced(dict(a=a, b=b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a, scale_b=scale_b, scale_result=scale_result, amax=amax, bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic))
    if _forward_ad._current_level >= 0:
        _refuse_tangents(a=a, b=b, out=out, c=c, scale_a=scale_a, scale_b=scale_b, scale_result=scale_result, amax=amax, bias=bias)
    _context = _current()
    if type(alpha) is not float:
        alpha = _factor('alpha', alpha)
    if beta is None:
        beta = 0.0 if c is None else 1.0
    elif type(beta) is not float:
        beta = _factor('beta', beta)
    if type(a) is _Tensor and type(b) is _Tensor and (out is None or type(out) is _Tensor) and (c is None or type(c) is _Tensor) and (scale_a is None or type(scale_a) is _Tensor) and (scale_b is None or type(scale_b) is _Tensor) and (scale_result is None or type(scale_result) is _Tensor) and (amax is None or type(amax) is _Tensor) and (bias is None or type(bias) is _Tensor):
        try:
            _cached = _context.plans.launchers.get(('gemm', a.shape, None if out is not None else (a.dtype, b.shape,), out_dtype, activation, fast_accum, tactic, not beta, not alpha,))
            if _cached is not None and not ((a.requires_grad and _grad()) or (b.requires_grad and _grad()) or (out is not None and out.requires_grad and _grad()) or (c is not None and c.requires_grad and _grad()) or (scale_a is not None and (scale_a.requires_grad and _grad() or scale_a.is_neg())) or (scale_b is not None and (scale_b.requires_grad and _grad() or scale_b.is_neg())) or (scale_result is not None and (scale_result.requires_grad and _grad() or scale_result.is_neg())) or (amax is not None and (amax.requires_grad and _grad() or amax.is_neg())) or (bias is not None and bias.requires_grad and _grad())):
                _cached.used = True
                if _cached.recheck is not None:
                    _cached.recheck(alpha, beta)
                _result = out if out is not None else _make(_cached.plan.shape, _cached.plan.strides, dtype=_cached.plan.dtype, device=_cached.plan.device)
                if _cached.launch(a, b, (c if beta else None), _result, bias, scale_a, scale_b, scale_result, amax, alpha, beta, None) == 0:
                    return _result
        except (RuntimeError, TypeError, ValueError):
            pass  # the rest of the call raises what is wrong
    try:
        _key = ('gemm', type(a), a.dtype, a.shape, a.stride(), a.get_device(), type(b), b.dtype, b.shape, b.stride(), None if out is None else (type(out), out.dtype, out.shape, out.stride()), out_dtype, activation, fast_accum, tactic, None if c is None and scale_a is None and scale_b is None and scale_result is None and amax is None and bias is None else (_layout_key(c), _layout_key(scale_a), _layout_key(scale_b), _layout_key(scale_result), _layout_key(amax), _layout_key(bias),), not beta, not alpha,)
        _plan = _context.plans.get(_key)
    except (AttributeError, TypeError, RuntimeError):
        _key = _plan = None
    if _plan is None:
        _plan = _first(_context, _key, dict(a=a, b=b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a, scale_b=scale_b, scale_result=scale_result, amax=amax, bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic))
        if _plan is None:
            return _traced(dict(a=a, b=b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a, scale_b=scale_b, scale_result=scale_result, amax=amax, bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic))
    else:
        _plan.used = True
        if (a.requires_grad and _grad()) or (b.requires_grad and _grad()) or (out is not None and out.requires_grad and _grad()) or (c is not None and c.requires_grad and _grad()) or (scale_a is not None and (scale_a.requires_grad and _grad() or scale_a.is_neg())) or (scale_b is not None and (scale_b.requires_grad and _grad() or scale_b.is_neg())) or (scale_result is not None and (scale_result.requires_grad and _grad() or scale_result.is_neg())) or (amax is not None and (amax.requires_grad and _grad() or amax.is_neg())) or (bias is not None and bias.requires_grad and _grad()):
            _refuse(a=a, b=b, out=out, c=c, scale_a=scale_a, scale_b=scale_b, scale_result=scale_result, amax=amax, bias=bias)
    if not beta:
        c = None
    if _plan.recheck is not None:
        _plan.recheck(alpha, beta)
    _passed = out
    if out is None:
        out = _make(_plan.shape, _plan.strides, dtype=_plan.dtype, device=_plan.device)
    try:
        if (_launch := _plan.quick) is not None:
            if _status := _launch(a, b, c, out, bias, scale_a, scale_b, scale_result, amax, alpha, beta, None):
                _plan.fail(_status)
            if _plan.cached is None and _key is not None:
                _cache_launcher(_context, ('gemm', a.shape, None if _passed is not None else (a.dtype, b.shape,), out_dtype, activation, fast_accum, tactic, not beta, not alpha,), _plan)
        elif _several() and _elsewhere(a):
            _run_on_its_device(_plan, (a, b, c, out, bias, scale_a, scale_b, scale_result, amax, alpha, beta))
        else:
            _plan.run((a, b, c, out, bias, scale_a, scale_b, scale_result, amax, alpha, beta))
    except _Misaligned:
        _realign(_context, _key, _plan, dict(a=a, b=b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a, scale_b=scale_b, scale_result=scale_result, amax=amax, bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic), (a, b, c, out, bias, scale_a, scale_b, scale_result, amax, alpha, beta))
    except _Ours:
        raise
    except (RuntimeError, TypeError, ValueError):
        return _recover(_context, dict(a=a, b=b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a, scale_b=scale_b, scale_result=scale_result, amax=amax, bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic), _passed)
    return out


def __call__(self, a, b, out=None, **changes):
    if out is None:
        self.check_made(changes)
        out = _make(self.shape, self.strides, dtype=self.dtype, device=self.device)
    if not changes and _forward_ad._current_level < 0:
        try:
            if not (a.requires_grad or b.requires_grad or out.requires_grad or self.needs_gradients):
                if self.launch(a, b, (out if self.accumulates else self.kept_c), out, self.kept_bias, self.kept_scale_a, self.kept_scale_b, self.kept_scale_result, self.kept_amax, self.kept_alpha, self.kept_beta, None) == 0:
                    return out
        except (AttributeError, RuntimeError, TypeError, ValueError):
            pass  # `carefully` raises what is wrong
    return self.carefully({'a': a, 'b': b, 'out': out}, changes)


def run(a, b, *, out_dtype=_default_out_dtype, c=_default_c, alpha=_default_alpha, beta=_default_beta, scale_a=_default_scale_a, scale_b=_default_scale_b, scale_result=_default_scale_result, amax=_default_amax, bias=_default_bias, activation=_default_activation, fast_accum=_default_fast_accum, tactic=_default_tactic):
    if type(a) is not _Tensor:
        a = _plain(a)
    if type(b) is not _Tensor:
        b = _plain(b)
    if c is not None and type(c) is not _Tensor:
        c = _plain(c)
    if alpha is None:
        alpha = _default_alpha
    if scale_a is not None and type(scale_a) is not _Tensor:
        scale_a = _plain(scale_a)
    if scale_b is not None and type(scale_b) is not _Tensor:
        scale_b = _plain(scale_b)
    if scale_result is not None and type(scale_result) is not _Tensor:
        scale_result = _plain(scale_result)
    if amax is not None and type(amax) is not _Tensor:
        amax = _plain(amax)
    if bias is not None and type(bias) is not _Tensor:
        bias = _plain(bias)
    if activation is None:
        activation = _default_activation
    if fast_accum is None:
        fast_accum = _default_fast_accum
    _results = _call(a=a, b=b, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a, scale_b=scale_b, scale_result=scale_result, amax=amax, bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic)
    return _results


def run(a, b, out, *, accumulate=False, out_dtype=_default_out_dtype, c=_default_c, alpha=_default_alpha, beta=_default_beta, scale_a=_default_scale_a, scale_b=_default_scale_b, scale_result=_default_scale_result, amax=_default_amax, bias=_default_bias, activation=_default_activation, fast_accum=_default_fast_accum, tactic=_default_tactic):
    if accumulate:
        c = out
    if type(a) is not _Tensor:
        a = _plain(a)
    if type(b) is not _Tensor:
        b = _plain(b)
    if out is not None and type(out) is not _Tensor:
        out = _plain(out)
    if c is not None and type(c) is not _Tensor:
        c = _plain(c)
    if alpha is None:
        alpha = _default_alpha
    if scale_a is not None and type(scale_a) is not _Tensor:
        scale_a = _plain(scale_a)
    if scale_b is not None and type(scale_b) is not _Tensor:
        scale_b = _plain(scale_b)
    if scale_result is not None and type(scale_result) is not _Tensor:
        scale_result = _plain(scale_result)
    if amax is not None and type(amax) is not _Tensor:
        amax = _plain(amax)
    if bias is not None and type(bias) is not _Tensor:
        bias = _plain(bias)
    if activation is None:
        activation = _default_activation
    if fast_accum is None:
        fast_accum = _default_fast_accum
    _results = _call(a=a, b=b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a, scale_b=scale_b, scale_result=scale_result, amax=amax, bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic)
    if amax is not None:
        _bump(amax)
    _bump(out)
