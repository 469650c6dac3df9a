<?php
// All cases of the queues for PHP.

ob_start();
require __DIR__ . '/suite.php';
require __DIR__ . '/laravel.php';

$suite = new Suite($argv);
laravel_cases($suite);
$suite->finish();
