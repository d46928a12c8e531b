// Runs kfake, franz-go's fake cluster, with three brokers. Prints their addresses. Ends when its standard input ends.
//
//	-as 2.8               answer as that release of Kafka does
//	-sasl                 want PLAIN of alice, secret
//	-topics t:3,u:1       topics with their partitions
//
// A line 0:6:t of its standard input makes the next Produce (0) fail with error 6 for the topic t; without a topic the
// whole answer has the error. It prints an empty line when the next request will meet the error.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func main() {
	as := flag.String("as", "", "")
	sasl := flag.Bool("sasl", false, "")
	topics := flag.String("topics", "", "")
	flag.Parse()

	opts := []kfake.Opt{kfake.NumBrokers(3)}
	if *as != "" {
		opts = append(opts, kfake.MaxVersions(kversion.FromString(*as)))
	}
	if *sasl {
		opts = append(opts, kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "secret"))
	}
	if *topics != "" {
		for _, topic := range strings.Split(*topics, ",") {
			name, partitions, _ := strings.Cut(topic, ":")
			opts = append(opts, kfake.SeedTopics(int32(number(partitions)), name))
		}
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println() {
		parts := strings.Split(lines.Text(), ":")
		one := kfake.Fault{Count: 1, Err: kerr.TypedErrorForCode(int16(number(parts[1])))}
		one.Keys = []kmsg.Key{kmsg.Key(number(parts[0]))}
		if len(parts) > 2 {
			one.Topic = parts[2]
		} else {
			one.TopLevel = true
		}
		cluster.Fault(one)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}
