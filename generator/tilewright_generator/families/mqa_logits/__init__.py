"""Logits of many queries' heads with one head of keys (MQA), weighted and summed: kernels of our own."""
