<?php
// All cases of the clients for PHP.

ob_start();
require __DIR__ . '/suite.php';
require __DIR__ . '/phpredis.php';
require __DIR__ . '/predis.php';

$suite = new Suite($argv);
phpredis_cases($suite);
predis_cases($suite);
$suite->finish();
