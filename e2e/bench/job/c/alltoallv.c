/* Prints the median time of MPI_Alltoallv, in nanoseconds: of each call the slowest rank's, after a barrier.
 * A rank's time ends when MPI_Alltoallv returns: what it receives is there. Arguments: measured calls, and the bytes
 * from each rank to each, row by row. */
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
	int rank, size, calls = atoi(argv[1]);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 2 + size * size) {
		fprintf(stderr, "%d ranks and %d numbers\n", size, argc - 2);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	int *sent = calloc(size, sizeof(int)), *sent_at = calloc(size + 1, sizeof(int));
	int *received = calloc(size, sizeof(int)), *received_at = calloc(size + 1, sizeof(int));
	for (int i = 0; i < size; i++) {
		sent[i] = atoi(argv[2 + rank * size + i]);
		received[i] = atoi(argv[2 + i * size + rank]);
		sent_at[i + 1] = sent_at[i] + sent[i];
		received_at[i + 1] = received_at[i] + received[i];
	}
	char *send = malloc(sent_at[size] + 1), *recv = malloc(received_at[size] + 1);
	double *times = malloc(sizeof(double) * calls);
	memset(send, rank, sent_at[size]);
	memset(recv, 0, received_at[size]);
	for (int i = -calls / 10 - 1; i < calls; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime(), most;
		MPI_Alltoallv(send, sent, sent_at, MPI_BYTE, recv, received, received_at, MPI_BYTE, MPI_COMM_WORLD);
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
