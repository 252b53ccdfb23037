#!/bin/sh
echo hello >"/var/tmp/$1"
