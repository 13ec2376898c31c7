"""The scheduler of queues in a cluster in which everything breaks that can break: no gang stays in part."""
