# libmemcached's command line tools: files become items and come back.
servers="--servers=$KV_HOST:$KV_PORT"
cd "$KV_FOLDER" || exit 1
printf 'first' >one.txt
head -c 300000 /dev/zero | tr '\0' 'z' >two.txt
echo "== copies"
"$1flush" $servers; echo "flush $?"
"$1cp" $servers --flags=5 --expire=100 one.txt two.txt; echo "cp $?"
"$1cat" $servers one.txt; echo "cat $?"
"$1cat" $servers two.txt | md5sum
"$1exist" $servers one.txt; echo "exist $?"
"$1exist" $servers none; echo "exist none $?"
"$1touch" $servers --expire=50 one.txt; echo "touch $?"
"$1rm" $servers one.txt; echo "rm $?"
"$1rm" $servers one.txt >/dev/null 2>&1; echo "rm again $?"
"$1exist" $servers one.txt; echo "exist $?"
"$1ping" $servers; echo "ping $?"
