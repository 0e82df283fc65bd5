#!/bin/bash
# Records one rank of a GPT of Megatron-LM (core 0.16.1) on a simulated GPU, without Transformer Engine and apex. Run in its checkout:
#
#   docs/examples/megatron-lm.sh 64 37 after.pkl
#
# The ranks of the job, the rank to record, and the file to write. The last three lines of options select what needs neither package.
# Sequence and context parallelism, FP8 and grouped expert products need one of them and cannot run.
#
# Cards before Blackwell need CUDA_DEVICE_MAX_CONNECTIONS=1 with tensor parallelism. Of $CUDA_HOME/bin/nvcc -V the program reads only the
# version: a script that prints "Cuda compilation tools, release 13.0, V13.0.48" is enough. megatron/core/datasets/helpers_cpp must be
# built, or taken from the wheel of megatron-core.
set -euo pipefail

if [ "$#" -ne 3 ]; then
  echo "usage: $0 WORLD_SIZE RANK FILE" >&2
  exit 2
fi

ptmem simulate --world-size "$1" --rank "$2" --record "$3,steps=2..2" \
  --peer-value 'build_train_valid_test_data_loaders=[1, 1, 1]' -- \
  python pretrain_gpt.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --use-distributed-optimizer \
  --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --bf16 \
  --micro-batch-size 2 --global-batch-size 64 --train-iters 3 --lr 1e-4 --eval-iters 0 --eval-interval 100 --split 100,0,0 \
  --mock-data --tokenizer-type NullTokenizer --vocab-size 32000 --no-create-attention-mask-in-dataloader \
  --transformer-impl local --attention-backend unfused --no-persist-layer-norm --no-gradient-accumulation-fusion \
  --no-masked-softmax-fusion --no-bias-gelu-fusion --no-bias-dropout-fusion --no-rope-fusion
