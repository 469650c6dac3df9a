<?php
// Runs cases against the server whose address is in the arguments, and prints one line of JSON for each.

// Predis is older than some of PHP's rules.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);

final class Suite
{
    public readonly string $host;
    public readonly int $port;
    private int $keys = 0;
    private array $survivors = [];

    public function __construct(array $arguments)
    {
        [, $this->host, $port] = $arguments;
        $this->port = (int) $port;
        // Warnings are failures.
        set_error_handler(fn ($_, $message) => throw new ErrorException($message), error_reporting());
    }

    /** A name that no other case uses. */
    public function key(): string
    {
        return 'php:' . ++$this->keys;
    }

    /** Runs a case. It has passed if it returns. */
    public function test(string $client, string $name, callable $run): void
    {
        $outcome = ['client' => $client, 'case' => $name];
        $started = hrtime(true);
        try {
            $run();
        } catch (Throwable $error) {
            $outcome['error'] = get_class($error) . ': ' . $error->getMessage();
        }
        $outcome['ms'] = intdiv(hrtime(true) - $started, 1_000_000);
        $this->print($outcome);
    }

    /** Calls `use` before the restart, and after it until it succeeds: a connection that broke may cost an error. */
    public function survives(string $client, callable $use): void
    {
        $this->survivors[] = [$client, $use];
    }

    /** Restarts the server between two uses of each client. */
    public function finish(): void
    {
        foreach ($this->survivors as [, $use]) {
            $use();
        }
        $this->print(['restart' => true]);
        equal(fgets(STDIN), "restarted\n");
        foreach ($this->survivors as [$client, $use]) {
            $this->test($client, 'restart', fn () => eventually($use));
        }
    }

    private function print(array $line): void
    {
        fwrite(STDOUT, json_encode($line, JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
    }
}

/** Calls a function until it returns; its last error is the error. */
function eventually(callable $use): mixed
{
    $deadline = microtime(true) + 4;
    while (true) {
        try {
            return $use();
        } catch (Throwable $error) {
            if (microtime(true) > $deadline) {
                throw $error;
            }
            usleep(20_000);
        }
    }
}

function equal(mixed $found, mixed $expected): void
{
    if ($found !== $expected) {
        throw new Exception(json_encode($found) . ' instead of ' . json_encode($expected));
    }
}

/** Runs a function that must throw this exception. */
function fails(string $class, callable $run): void
{
    try {
        $run();
    } catch (Throwable $error) {
        if ($error instanceof $class) {
            return;
        }
        throw $error;
    }
    throw new Exception("no $class");
}

/** Runs a function in another process. */
function in_child(callable $run): void
{
    $child = pcntl_fork();
    if ($child === 0) {
        $run();
        // Not `exit`, which would run the destructors of the parent's connections.
        posix_kill(posix_getpid(), SIGKILL);
    }
}
