/* Times MPI_Barrier the way perigee times its own (rank.go): batches of barriers
 * back to back, as many as fill a given time, and after them single barriers of
 * which every rank notes when it has left them. Rank 0 prints one line per batch,
 * "time" with the nanoseconds of one barrier, and one per single barrier, "skew"
 * with the nanoseconds between the first rank that left it and the last.
 *
 * usage: barrier BUDGET_NS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCH 10          /* barriers between two looks at the clock */
#define SLOW 1000000      /* nanoseconds of a barrier from which on a batch is one */
#define TRIAL 5000000     /* nanoseconds of barriers that show how long one takes, */
#define MAX_TRIAL 256     /* and how many suffice */
#define MAX_SINGLE 200    /* barriers of which the skew is measured */

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
	static long long left[MAX_SINGLE];
	int rank, ranks, plan[3]; /* barriers in a batch, batches, single barriers */
	double budget, one = 0;

	MPI_Init(&argc, &argv);
	if (argc != 2)
		MPI_Abort(MPI_COMM_WORLD, 2);
	budget = atof(argv[1]);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	batch(1); /* connections are made when first needed */
	for (int n = 1, enough = 0; !enough; n *= 4) {
		one = batch(n);
		enough = one * n > TRIAL || n >= MAX_TRIAL;
		MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	plan[0] = one < SLOW ? BATCH : 1;
	plan[1] = (int)(budget / (one * plan[0])) + 1;
	plan[2] = (int)(budget / one) + 1;
	if (plan[2] > MAX_SINGLE)
		plan[2] = MAX_SINGLE;
	MPI_Bcast(plan, 3, MPI_INT, 0, MPI_COMM_WORLD);
	for (int i = 0; i < plan[1]; i++) {
		double ns = batch(plan[0]);

		if (rank == 0)
			printf("time %.1f\n", ns);
	}
	for (int i = 0; i < plan[2]; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		left[i] = now();
	}
	long long *all = malloc(sizeof(left[0]) * plan[2] * ranks);
	if (!all)
		MPI_Abort(MPI_COMM_WORLD, 3);
	MPI_Gather(left, plan[2], MPI_LONG_LONG, all, plan[2], MPI_LONG_LONG, 0, MPI_COMM_WORLD);
	for (int i = 0; rank == 0 && i < plan[2]; i++) {
		long long first = all[i], last = all[i];

		for (int r = 1; r < ranks; r++) {
			long long t = all[r * plan[2] + i];

			first = t < first ? t : first;
			last = t > last ? t : last;
		}
		printf("skew %lld\n", last - first);
	}
	free(all);
	MPI_Finalize();
	return 0;
}
