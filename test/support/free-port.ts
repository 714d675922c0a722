/** @module Finds a port, free at all addresses, for a server that another process starts later. */
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/**
 * Below the ephemeral ports, which systems assign to connections and to servers on port 0, and other tests use
 * constantly.
 */
const [LOWEST, AFTER_HIGHEST] = [20_000, 32_000]

export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(LOWEST, AFTER_HIGHEST)
    if (await isFree(port)) return port
  }
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, () => server.close(() => resolve(true)))
  })
