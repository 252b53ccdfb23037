echo hello >"/var/tmp/$1"
