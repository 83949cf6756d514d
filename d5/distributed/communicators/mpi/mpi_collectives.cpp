// SPDX-License-Identifier: Apache-2.0
#include <climits>
#include <cstring>

#include "d5/distributed/communicators/mpi/mpi.hpp"

namespace d5 {
namespace {

struct Type {
  MPI_Datatype datatype;
  MPI_Op sum, max;
};

template <DType dtype, Reduction reduction>
void combine_narrow(void* in, void* in_out, int* count, MPI_Datatype*) {
  Operation op;
  op.dtype = dtype;
  op.reduction = reduction;
  combine(op, in_out, in, in_out, *count);
}

template <DType dtype, Reduction reduction>
MPI_Op narrow_op() {
  static const MPI_Op op = [] {
    MPI_Op made;
    check_mpi(MPI_Op_create(combine_narrow<dtype, reduction>, 1, &made), "MPI_Op_create");
    return made;
  }();
  return op;
}

Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return {MPI_FLOAT, MPI_SUM, MPI_MAX};
    case DType::f64: return {MPI_DOUBLE, MPI_SUM, MPI_MAX};
    case DType::i8: return {MPI_INT8_T, MPI_SUM, MPI_MAX};
    case DType::i16: return {MPI_INT16_T, MPI_SUM, MPI_MAX};
    case DType::i32: return {MPI_INT32_T, MPI_SUM, MPI_MAX};
    case DType::i64: return {MPI_INT64_T, MPI_SUM, MPI_MAX};
    case DType::u8: return {MPI_UINT8_T, MPI_SUM, MPI_MAX};
    case DType::u16: return {MPI_UINT16_T, MPI_SUM, MPI_MAX};
    case DType::u32: return {MPI_UINT32_T, MPI_SUM, MPI_MAX};
    case DType::u64: return {MPI_UINT64_T, MPI_SUM, MPI_MAX};
    case DType::bf16:
      return {MPI_UINT16_T, narrow_op<DType::bf16, Reduction::sum>(), narrow_op<DType::bf16, Reduction::max>()};
    case DType::f16:
      return {MPI_UINT16_T, narrow_op<DType::f16, Reduction::sum>(), narrow_op<DType::f16, Reduction::max>()};
    default: throw UsageError("[mpi] {} has no MPI type", name(dtype));
  }
}

constexpr int tag = 0;  // of messages that are over before the call returns

// To the next rank, from the one before; of a single sender only where it sends and where it arrives.
void send_on(const Operation& op, MPI_Datatype type, MPI_Comm comm, int rank) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  if (op.collective == Collective::send) {
    if (rank != op.root) next = MPI_PROC_NULL;
    if (before != op.root) before = MPI_PROC_NULL;
  }
  const int count = static_cast<int>(op.count);
  check_mpi(
      MPI_Sendrecv(op.input, count, type, next, tag, op.output, count, type, before, tag, comm, MPI_STATUS_IGNORE),
      "MPI_Sendrecv");
}

void swap_with_neighbours(const Operation& op, MPI_Datatype type, MPI_Comm comm) {
  const size_t neighbours = op.neighbours.size();
  const int count = static_cast<int>(op.count);
  std::vector<MPI_Request> requests(2 * neighbours);
  for (size_t i = 0; i < neighbours; ++i) {
    const auto offset = static_cast<size_t>(storage_bytes(op.dtype, op.count)) * i;
    check_mpi(MPI_Irecv(static_cast<std::byte*>(op.output) + offset, count, type, op.neighbours[i], tag, comm,
                        &requests[2 * i]),
              "MPI_Irecv");
    check_mpi(MPI_Isend(static_cast<const std::byte*>(op.input) + offset, count, type, op.neighbours[i], tag, comm,
                        &requests[2 * i + 1]),
              "MPI_Isend");
  }
  check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void one(const Operation& op, MPI_Comm comm, int rank) {
  const Type type = type_of(op.dtype);
  const MPI_Datatype t = type.datatype;
  const MPI_Op sum = op.reduction == Reduction::max ? type.max : type.sum;
  const int count = static_cast<int>(op.count);
  const bool in_place = op.input == op.output, root = rank == op.root;
  const void* const in = in_place ? MPI_IN_PLACE : op.input;
  switch (op.collective) {
    case Collective::allreduce: return check_mpi(MPI_Allreduce(in, op.output, count, t, sum, comm), "MPI_Allreduce");
    case Collective::reduce:
      return check_mpi(MPI_Reduce(root ? in : op.input, op.output, count, t, sum, op.root, comm), "MPI_Reduce");
    case Collective::broadcast:
      if (root && !in_place && count > 0)
        std::memcpy(op.output, op.input, static_cast<size_t>(storage_bytes(op.dtype, count)));
      return check_mpi(MPI_Bcast(op.output, count, t, op.root, comm), "MPI_Bcast");
    case Collective::reduce_scatter:
      return check_mpi(MPI_Reduce_scatter_block(op.input, op.output, count, t, sum, comm), "MPI_Reduce_scatter_block");
    case Collective::allgather:
      return check_mpi(MPI_Allgather(op.input, count, t, op.output, count, t, comm), "MPI_Allgather");
    case Collective::gather:
      return check_mpi(MPI_Gather(op.input, count, t, op.output, count, t, op.root, comm), "MPI_Gather");
    case Collective::scatter:
      return check_mpi(MPI_Scatter(op.input, count, t, op.output, count, t, op.root, comm), "MPI_Scatter");
    case Collective::all_to_all:
      return check_mpi(MPI_Alltoall(op.input, count, t, op.output, count, t, comm), "MPI_Alltoall");
    case Collective::barrier: return check_mpi(MPI_Barrier(comm), "MPI_Barrier");
    case Collective::neighbour_exchange: return swap_with_neighbours(op, t, comm);
    case Collective::send:
    case Collective::send_receive: return send_on(op, t, comm, rank);
    case Collective::put:
    case Collective::get: break;
  }
  throw Error("[mpi] no {} by the library", name(op.collective));
}

void finish_own(const Operation& op, int rank) {
  const bool sums = op.collective == Collective::allreduce || op.collective == Collective::reduce_scatter ||
                    (op.collective == Collective::reduce && rank == op.root);
  if (sums) finish(op, op.output, op.count);
}

}  // namespace

void mpi_collective(const Operation& op, MPI_Comm comm, int rank) {
  if (op.count <= INT_MAX) {
    one(op, comm, rank);
    return finish_own(op, rank);
  }
  constexpr int64_t piece = int64_t{1} << 30;
  for (int64_t first = 0; first < op.count; first += piece) {
    Operation part = op;
    const auto offset = static_cast<size_t>(storage_bytes(op.dtype, first));
    if (op.input) part.input = static_cast<const std::byte*>(op.input) + offset;
    if (op.output) part.output = static_cast<std::byte*>(op.output) + offset;
    part.count = std::min(piece, op.count - first);
    one(part, comm, rank);
  }
  finish_own(op, rank);
}

}  // namespace d5
