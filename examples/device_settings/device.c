/* A simulated positioning axis with its controller, compiled on its own: it knows nothing of Python or of tuning.
 *
 *     device FRICTION TORQUE PLAY NOISE        the wear of this device, see below
 *
 * Each line of standard input is a question: five settings, then the numbers of the work cycles to run.
 *
 *     KP KI KD FILTER FORWARD CYCLE [CYCLE ...]
 *
 * The answer is one line: the mean cost of the cycles, or "error" and a reason. Cost of a cycle: the mean distance from
 * the wanted position, in degrees, plus a price for a nervous motor.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STEP 0.002        /* seconds between two control steps */
#define STEPS 600         /* control steps of a cycle */
#define DELAY 3           /* control steps until a command reaches the motor */
#define NERVES 4.0        /* degrees that a motor costs which reverses full torque in every step */

struct wear {
    double friction;      /* times that of a new device */
    double torque;        /* share that is left of a new motor's */
    double play;          /* degrees of backlash in the gear */
    double noise;         /* degrees of noise on the position sensor */
};

struct settings {
    double kp, ki, kd;    /* torque per degree, per degree second, per degree a second */
    double filter;        /* seconds of the derivative's low-pass filter */
    double forward;       /* torque per degree a second of the wanted speed */
};

/* Uniform in [0, 1): the same numbers for the same cycle on every machine. */
static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static double clip(double value, double limit)
{
    return value > limit ? limit : value < -limit ? -limit : value;
}

static double run_cycle(const struct wear *wear, const struct settings *set, long cycle)
{
    uint64_t random = 2u * (uint64_t)cycle + 1u;
    for (int i = 0; i < 8; i++)
        uniform(&random);
    const double target = 20.0 + 70.0 * uniform(&random);           /* degrees */
    const double travel = 0.2 + 0.2 * uniform(&random);             /* seconds */
    const double push = 0.3 * (2.0 * uniform(&random) - 1.0);       /* a load that leans on the axis from pushed on */
    const double pushed = 0.6 + 0.2 * uniform(&random);             /* seconds */
    double angle = 0.0, speed = 0.0, shaft = 0.0;                   /* of the motor; shaft: behind the gear */
    double integral = 0.0, slope = 0.0, before = 0.0, torque = 0.0, cost = 0.0;
    double sent[DELAY] = {0.0};
    for (int step = 0; step < STEPS; step++) {
        const double now = step * STEP;
        const double part = now < travel ? now / travel : 1.0;
        const double wanted = target * part * part * (3.0 - 2.0 * part);
        const double wanted_speed = target * 6.0 * part * (1.0 - part) / travel;
        const double noise = wear->noise * (uniform(&random) + uniform(&random) + uniform(&random) - 1.5) * 2.0;
        const double error = wanted - (shaft + noise);

        slope += ((error - before) / STEP - slope) * STEP / (set->filter + STEP);
        before = error;
        integral = clip(integral + set->ki * error * STEP, 1.0);
        const double command = clip(set->kp * error + integral + set->kd * slope + set->forward * wanted_speed, 1.0);
        cost += fabs(error + noise) + NERVES * fabs(command - torque) / 2.0;
        torque = command;

        const double reached = sent[step % DELAY];
        sent[step % DELAY] = command;
        const double load = now < pushed ? 0.0 : push;
        const double rubbing = wear->friction * (0.08 * tanh(speed / 5.0) + 0.0002 * speed);
        speed += STEP * 20000.0 * (wear->torque * reached - rubbing - load);
        angle += STEP * speed;
        if (shaft < angle - wear->play / 2.0)
            shaft = angle - wear->play / 2.0;
        if (shaft > angle + wear->play / 2.0)
            shaft = angle + wear->play / 2.0;
    }
    return cost / STEPS;
}

static void answer(const struct wear *wear, const char *line)
{
    double numbers[5], sum = 0.0;
    long cycles = 0;
    char *end;
    for (int i = 0; i < 5; i++, line = end) {
        numbers[i] = strtod(line, &end);
        if (end == line || !isfinite(numbers[i]) || numbers[i] < 0.0) {
            printf("error setting %d is not a finite number of at least 0\n", i + 1);
            return;
        }
    }
    const struct settings set = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
    for (long cycle = strtol(line, &end, 10); end != line; cycle = strtol(line, &end, 10)) {
        sum += run_cycle(wear, &set, cycle);
        cycles++;
        line = end;
    }
    if (cycles == 0)
        printf("error no cycle was named\n");
    else
        printf("%.17g\n", sum / (double)cycles);
}

int main(int count, char **words)
{
    static char line[1 << 20];
    if (count != 5) {
        fprintf(stderr, "usage: device FRICTION TORQUE PLAY NOISE\n");
        return 2;
    }
    double worn[4];
    for (int i = 0; i < 4; i++) {
        char *end;
        worn[i] = strtod(words[i + 1], &end);
        if (end == words[i + 1] || *end != '\0' || !isfinite(worn[i]) || worn[i] < 0.0) {
            fprintf(stderr, "device: wear must be four finite numbers of at least 0, got '%s'\n", words[i + 1]);
            return 2;
        }
    }
    const struct wear wear = {worn[0], worn[1], worn[2], worn[3]};
    while (fgets(line, sizeof line, stdin)) {
        answer(&wear, line);
        fflush(stdout);
    }
    return 0;
}
