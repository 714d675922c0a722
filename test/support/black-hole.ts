/**
 * @module An address that never answers: the queue of a listening socket is full, and its process is stopped, so the
 * kernel drops every further SYN. On the loopback interface, which needs no rights and no firewall.
 */
import { connect, type Socket } from 'node:net'

export interface BlackHole extends AsyncDisposable {
  readonly port: number
}

const LISTENER = `
const server = require('node:net').createServer()
server.listen({ host: process.argv[1], port: Number(process.argv[2]), backlog: 1 }, () => console.log(server.address().port))
`
/** A connection that is not established after this time is dropped by the kernel. */
const DROPPED_AFTER_MS = 200

/** @param port default: a free one */
export async function startBlackHole(address: string, port = 0): Promise<BlackHole> {
  const child = Bun.spawn([process.execPath, '-e', LISTENER, address, String(port)], { stdout: 'pipe' })
  const reader = child.stdout.getReader()
  const { value } = await reader.read()
  const listening = Number(new TextDecoder().decode(value))
  child.kill('SIGSTOP')
  const sockets: Socket[] = []
  for (let isOpen = true; isOpen; ) {
    const socket = connect({ host: address, port: listening })
    socket.on('error', () => undefined)
    sockets.push(socket)
    let isConnected = false
    socket.once('connect', () => {
      isConnected = true
    })
    await Promise.race([new Promise((resolve) => socket.once('connect', resolve)), Bun.sleep(DROPPED_AFTER_MS)])
    // After a stall of this process, the timer is handled before the connection that was established long ago.
    for (let turn = 0; turn < 3 && !isConnected; turn++) await new Promise((resolve) => setTimeout(resolve, 1))
    isOpen = isConnected
  }
  return {
    port: listening,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      child.kill('SIGKILL')
      await child.exited
    },
  }
}
