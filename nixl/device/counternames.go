package device

// The drivers of NICs name the same thing in different ways. These tables give it one name, which docs/network.md
// explains. Names of drivers are from:
//
//	mlx5     "Understanding mlx5 Linux counters and status parameters" (NVIDIA), the kernel's Documentation/networking/
//	         device_drivers/ethernet/mellanox/mlx5/counters.rst and Documentation/ABI/stable/sysfs-class-infiniband
//	bnxt_re  the kernel's drivers/infiniband/hw/bnxt_re/hw_counters.c; older and newer names in ROCm/rocm-systems#4961
//	         and #5016; priorities of bnxt_en in ROCm/rocm-systems#11027
//	ionic    ROCm/rocm-systems#4961 and #5016, whose pairs with bnxt_re these are
//	efa, ena AWS, "Monitor an Elastic Fabric Adapter" and "Network performance metrics for ENA"

// source is where a counter of a NIC is found.
type source struct {
	name string // here
	key  string // file below the port's folder, or statistic of ethtool
	// bits is the width, where a driver's counter has fewer than 64: 32 begin at 0 again, 16 stay at their largest
	// value, as the InfiniBand specification wants it.
	bits int
}

// portTraffic are the bytes of a port, the first that is there. The unit of the first is 4 bytes.
var portTraffic = []struct {
	sent, received string
	unit           int64
}{
	{"counters/port_xmit_data", "counters/port_rcv_data", 4},
	{"hw_counters/tx_bytes", "hw_counters/rx_bytes", 1},                       // bnxt_re, efa
	{"hw_counters/tx_rdma_ucast_bytes", "hw_counters/rx_rdma_ucast_bytes", 1}, // ionic
}

// portSources are the counters of an RDMA port. Of those with one name the first that is there counts.
var portSources = []source{
	{"xmit_wait", "counters/port_xmit_wait", 32},
	{"tx_discards", "counters/port_xmit_discards", 16},
	{"rx_errors", "counters/port_rcv_errors", 16},

	{"cnp_sent", "hw_counters/np_cnp_sent", 0}, // mlx5, bnxt_re
	{"cnp_sent", "hw_counters/tx_cnp_pkts", 0}, // bnxt_re
	{"cnp_sent", "hw_counters/tx_rdma_cnp_pkts", 0},
	{"cnp_received", "hw_counters/rp_cnp_handled", 0}, // mlx5, bnxt_re
	{"cnp_received", "hw_counters/rx_cnp_pkts", 0},    // bnxt_re
	{"cnp_received", "hw_counters/rx_rdma_cnp_pkts", 0},
	{"ecn_marked", "hw_counters/np_ecn_marked_roce_packets", 0}, // mlx5, bnxt_re
	{"ecn_marked", "hw_counters/rx_ecn_marked_pkts", 0},         // bnxt_re
	{"ecn_marked", "hw_counters/rx_rdma_ecn_pkts", 0},

	{"out_of_sequence", "hw_counters/out_of_sequence", 32},   // mlx5
	{"out_of_sequence", "hw_counters/res_oos_drop_count", 0}, // bnxt_re
	{"out_of_sequence", "hw_counters/oos_drop_count", 0},     // bnxt_re
	{"out_of_sequence", "hw_counters/resp_rx_outouf_seq", 0}, // ionic, spelt so
	{"sequence_errors", "hw_counters/packet_seq_err", 32},    // mlx5
	{"sequence_errors", "hw_counters/seq_err_naks_rcvd", 0},  // bnxt_re
	{"sequence_errors", "hw_counters/req_rx_pkt_seq_err", 0},
	{"ack_timeouts", "hw_counters/local_ack_timeout_err", 32}, // mlx5, bnxt_re
	{"ack_timeouts", "hw_counters/to_retransmits", 0},         // bnxt_re
	{"ack_timeouts", "hw_counters/tx_rdma_ack_timeout", 0},
	{"ack_timeouts", "hw_counters/retrans_timeout_events", 0}, // efa
	{"retransmits", "hw_counters/roce_adp_retrans", 32},       // mlx5
	{"retransmits", "hw_counters/tx_rdma_retx_pkts", 0},
	{"retransmits", "hw_counters/retrans_pkts", 0}, // efa

	{"not_ready", "hw_counters/rnr_nak_retry_err", 32}, // mlx5
	{"not_ready", "hw_counters/rnr_naks_rcvd", 0},      // bnxt_re
	{"not_ready", "hw_counters/req_rx_rnr_retry_err", 0},
	{"out_of_buffer", "hw_counters/out_of_buffer", 32}, // mlx5
	{"out_of_buffer", "hw_counters/resp_rx_outof_buf", 0},
	{"rx_discards", "hw_counters/rx_roce_discards", 0},     // bnxt_re
	{"rx_discards", "hw_counters/rx_roce_discard_pkts", 0}, // bnxt_re
	{"rx_discards", "hw_counters/rx_rdma_mtu_discard_pkts", 0},
	{"rx_discards", "hw_counters/rx_drops", 0}, // efa
	{"impaired_connections", "hw_counters/impaired_remote_conn_events", 0},
}

// statisticSources are the counters of ethtool; # stands for the priorities 0 to 7, which are summed up.
var statisticSources = []source{
	{"pause_received", "rx_prio#_pause", 0},         // mlx5
	{"pause_received", "rx_pfc_ena_frames_pri#", 0}, // bnxt
	{"pause_received", "frames_rx_pripause", 0},     // ionic
	{"pause_received", "rx_pause_ctrl_phy", 0},      // mlx5 whose firmware has no priorities
	{"pause_sent", "tx_prio#_pause", 0},             // mlx5
	{"pause_sent", "tx_pfc_ena_frames_pri#", 0},     // bnxt
	{"pause_sent", "frames_tx_pripause", 0},         // ionic
	{"pause_sent", "tx_pause_ctrl_phy", 0},          // mlx5
	{"rx_discards", "rx_discards_phy", 0},           // mlx5
	{"rx_discards", "hw_rx_dropped", 0},             // ionic
	{"tx_discards", "tx_discards_phy", 0},           // mlx5
	{"tx_discards", "hw_tx_dropped", 0},             // ionic
	{"out_of_buffer", "rx_out_of_buffer", 0},        // mlx5
	{"shaped_received", "bw_in_allowance_exceeded", 0},
	{"shaped_sent", "bw_out_allowance_exceeded", 0},
	{"shaped_packets", "pps_allowance_exceeded", 0},
}

// tcpSources are the counters of TCP in /proc/net/snmp and /proc/net/netstat, as the kernel's
// Documentation/networking/snmp_counter.rst describes them.
var tcpSources = []source{
	{"retransmits", "Tcp RetransSegs", 0},
	{"fast_retransmits", "TcpExt TCPFastRetrans", 0},
	{"syn_retransmits", "TcpExt TCPSynRetrans", 0},
	{"lost_retransmits", "TcpExt TCPLostRetransmit", 0},
	{"timeouts", "TcpExt TCPTimeouts", 0},
	{"spurious_timeouts", "TcpExt TCPSpuriousRTOs", 0},
	{"ecn_marked", "TcpExt TCPDeliveredCE", 0},
	{"receive_drops", "TcpExt TCPRcvQDrop", 0},
	{"backlog_drops", "TcpExt TCPBacklogDrop", 0},
}
