/* Prints the median time of MPI_Alltoallv, in nanoseconds: of each call the slowest rank's, after a barrier.
 * Arguments: bytes for each pair of ranks, measured calls. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank, size, bytes = atoi(argv[1]), calls = atoi(argv[2]);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	char *send = malloc((size_t)bytes * size), *recv = malloc((size_t)bytes * size);
	int *counts = malloc(sizeof(int) * size), *offsets = malloc(sizeof(int) * size);
	double *times = malloc(sizeof(double) * calls);
	memset(send, rank, (size_t)bytes * size);
	memset(recv, 0, (size_t)bytes * size);
	for (int i = 0; i < size; i++) {
		counts[i] = bytes;
		offsets[i] = i * bytes;
	}
	for (int i = -calls / 10 - 1; i < calls; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime(), most;
		MPI_Alltoallv(send, counts, offsets, MPI_BYTE, recv, counts, offsets, MPI_BYTE, MPI_COMM_WORLD);
		double took = MPI_Wtime() - start;
		MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
		if (i >= 0)
			times[i] = most;
	}
	if (rank == 0) {
		qsort(times, calls, sizeof(double), compare);
		printf("median %.0f\n", times[calls / 2] * 1e9);
	}
	MPI_Finalize();
	return 0;
}
