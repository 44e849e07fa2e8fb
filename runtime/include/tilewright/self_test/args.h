// Arguments of a self-test kernel: for each probe the words of its operands, and the words that it answers.
#ifndef TILEWRIGHT_SELF_TEST_ARGS_H_
#define TILEWRIGHT_SELF_TEST_ARGS_H_

#include <stdint.h>

typedef struct tilewright_self_test_args {
  const void* operands;
  void* results;
  int64_t probes;
} tilewright_self_test_args;

#endif  // TILEWRIGHT_SELF_TEST_ARGS_H_
