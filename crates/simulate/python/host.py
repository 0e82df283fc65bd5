"""Operators that only a device has, as functions of operators that the host has.

A function gives the first results of its operator: the others, such as the state of dropout, are not known.
"""

# Arguments that operators change although their schema does not say it.
CHANGED = ("running_mean", "running_var")


def attention(query, key, value, bias=None, causal=False, scale=None, dropout=0.0):
    import torch

    compute = torch.ops.aten._scaled_dot_product_attention_math
    return compute(query, key, value, bias, dropout, causal, scale=scale, enable_gqa=query.shape[1] != key.shape[1])[0]


def flash_attention(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    return (attention(query, key, value, None, is_causal, scale, dropout_p),)


def masked_attention(query, key, value, bias, logsumexp, dropout_p=0.0, is_causal=False, *rest, scale=None):
    return (attention(query, key, value, bias, is_causal, scale, dropout_p),)


def gradients(function, gradient, *inputs):
    """Gradients of a function's first result for these inputs, where it has no dropout."""
    import torch

    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    with torch.enable_grad():
        result = function(*leaves)
    return torch.autograd.grad(result, leaves, gradient)


def flash_backward(grad, query, key, value, out, sums, seq_q, seq_k, max_q, max_k, dropout, causal, *rest, scale=None):
    return dropout == 0 and gradients(lambda *qkv: attention(*qkv, None, causal, scale), grad, query, key, value)


def efficient_backward(
    grad, query, key, value, bias, out, sums, seed, offset, dropout, mask, causal=False, *, scale=None
):
    return dropout == 0 and gradients(lambda *qkv: attention(*qkv, bias, causal, scale), grad, query, key, value)


def cudnn_backward(grad, query, key, value, out, sums, seed, offset, bias, *rest, scale=None):
    dropout, causal = rest[4:6]
    return dropout == 0 and gradients(lambda *qkv: attention(*qkv, bias, causal, scale), grad, query, key, value)


def batch_norm(values, weight, bias, mean, variance, training, momentum, epsilon):
    import torch

    return torch.ops.aten.native_batch_norm(values, weight, bias, mean, variance, training, momentum, epsilon)


def batch_norm_backward(values, grad, weight, mean, variance, save_mean, save_variance, epsilon, reserve):
    import torch

    compute = torch.ops.aten.native_batch_norm_backward
    return compute(grad, values, weight, mean, variance, save_mean, save_variance, True, epsilon, [True, True, True])


def rms(values, shape, weight, epsilon):
    import torch

    dims = list(range(-len(shape), 0))
    epsilon = torch.finfo(values.dtype).eps if epsilon is None else epsilon
    inverse = (values.float().pow(2).mean(dims, keepdim=True) + epsilon).rsqrt()
    normal = (values.float() * inverse).to(values.dtype)
    return normal if weight is None else normal * weight, inverse


def rms_backward(grad, values, shape, inverse, weight, mask):
    dims = list(range(-len(shape), 0))
    epsilon = (inverse**-2 - values.float().pow(2).mean(dims, keepdim=True)).mean().item()
    inputs = (values,) if weight is None else (values, weight)
    return gradients(lambda part, scale=None: rms(part, shape, scale, epsilon)[0], grad, *inputs)


def gates_of(parts, input_gates, hidden_gates, input_bias, hidden_bias):
    inputs = input_gates if input_bias is None else input_gates + input_bias
    hidden = hidden_gates if hidden_bias is None else hidden_gates + hidden_bias
    return zip(inputs.chunk(parts, 1), hidden.chunk(parts, 1))


def gru_cell(input_gates, hidden_gates, state, input_bias=None, hidden_bias=None):
    (reset, hidden_reset), (keep, hidden_keep), (new, hidden_new) = gates_of(
        3, input_gates, hidden_gates, input_bias, hidden_bias
    )
    new = (new + (reset + hidden_reset).sigmoid() * hidden_new).tanh()
    return (new + (state - new) * (keep + hidden_keep).sigmoid(),)


def lstm_cell(input_gates, hidden_gates, cell, input_bias=None, hidden_bias=None):
    gates = gates_of(4, input_gates, hidden_gates, input_bias, hidden_bias)
    entry, forget, new, out = (one + other for one, other in gates)
    cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


def recurrent(
    values, weights, stride, buffer, hidden, cell, mode, size, projected, layers, batch_first, dropout, *rest
):
    import torch

    train, both_ways, batch_sizes, _ = rest
    compute = getattr(torch, ("rnn_relu", "rnn_tanh", "lstm", "gru")[mode])
    state = hidden if cell is None else (hidden, cell)
    has_biases = stride == 4 or (stride == 5 and projected > 0)
    if batch_sizes:
        sizes = torch.tensor(batch_sizes, device="cpu")
        return compute(values, sizes, state, weights, has_biases, layers, dropout, train, both_ways)
    return compute(values, state, weights, has_biases, layers, dropout, train, both_ways, batch_first)


OPERATORS = {
    "_scaled_dot_product_flash_attention": flash_attention,
    "_scaled_dot_product_efficient_attention": masked_attention,
    "_scaled_dot_product_cudnn_attention": masked_attention,
    "_scaled_dot_product_flash_attention_backward": flash_backward,
    "_scaled_dot_product_efficient_attention_backward": efficient_backward,
    "_scaled_dot_product_cudnn_attention_backward": cudnn_backward,
    "cudnn_batch_norm": batch_norm,
    "cudnn_batch_norm_backward": batch_norm_backward,
    "_fused_rms_norm": rms,
    "_fused_rms_norm_backward": rms_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_lstm_cell": lstm_cell,
    "_cudnn_rnn": recurrent,
}
