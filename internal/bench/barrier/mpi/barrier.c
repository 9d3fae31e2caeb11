/* Times MPI_Barrier the way perigee times its own: batches of barriers back to
 * back, as many as fill a given time. Rank 0 prints one line per batch with
 * the nanoseconds of one barrier.
 *
 * usage: barrier BATCH BUDGET_NS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double batch(int n)
{
	long long start = now();

	for (int i = 0; i < n; i++)
		MPI_Barrier(MPI_COMM_WORLD);
	return (double)(now() - start) / n;
}

int main(int argc, char **argv)
{
	int rank, n, batches;
	double budget, best;

	MPI_Init(&argc, &argv);
	if (argc != 3)
		MPI_Abort(MPI_COMM_WORLD, 2);
	n = atoi(argv[1]);
	budget = atof(argv[2]);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	best = batch(n); /* connections are made when first needed */
	for (int i = 0; i < 2; i++) {
		double once = batch(n);

		if (once < best)
			best = once;
	}
	batches = (int)(budget / (best * n)) + 1;
	MPI_Bcast(&batches, 1, MPI_INT, 0, MPI_COMM_WORLD);
	for (int i = 0; i < batches; i++) {
		double ns = batch(n);

		if (rank == 0)
			printf("%.1f\n", ns);
	}
	MPI_Finalize();
	return 0;
}
