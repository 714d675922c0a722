import { createServer } from "node:net"
createServer().listen(0)
