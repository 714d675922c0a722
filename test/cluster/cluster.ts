/**
 * @module The cluster under test: three nodes, PostgreSQL with a synchronous standby, and a front that sends connections
 * to the node that is ready.
 */
import { findFreePort } from '#test/support/free-port.ts'
import { type Postgres, startPostgres, startPostgresStandby } from '#test/support/postgres.ts'
import { type Relay, startRelay } from '#test/support/relay.ts'
import { ClusterNode, NODE_NAMES, type NodeName, type NodePorts } from './node.ts'

const AIM_INTERVAL_MS = 20
const LOOK_INTERVAL_MS = 20

/** What PostgreSQL says of the cluster. */
export interface ClusterRow {
  readonly epoch: number
  readonly seq: number
  readonly leader: string
  /** Whether it shall stop leading. */
  readonly stepDown: boolean
}

export interface NodeRow {
  readonly name: string
  readonly role: string
  readonly state: string
  readonly applied: number
}

export class TestCluster {
  readonly nodes: readonly ClusterNode[]
  readonly front: Readonly<Record<keyof NodePorts, Relay>>
  /** The nodes that were seen to lead, until somebody clears it. */
  readonly led = new Set<ClusterNode>()
  readonly #ports: readonly number[]
  /** The servers by place; the nodes know the ports of both places. */
  readonly #servers: (Postgres | undefined)[]
  #primary = 0
  readonly #aiming: NodeJS.Timeout

  private constructor(
    nodes: readonly ClusterNode[],
    front: Readonly<Record<keyof NodePorts, Relay>>,
    servers: readonly Postgres[],
  ) {
    this.nodes = nodes
    this.front = front
    this.#servers = [...servers]
    this.#ports = servers.map(({ port }) => port)
    this.#aiming = setInterval(() => {
      const { leader } = this
      if (leader) this.led.add(leader)
      for (const name of ['http', 'submission', 'inbound'] as const) front[name].aim(leader?.ports[name])
    }, AIM_INTERVAL_MS)
  }

  /** Starts PostgreSQL; no node runs yet. */
  static async create(folder: string, settings: Readonly<Record<string, string>>): Promise<TestCluster> {
    const ports = [await findFreePort(), await findFreePort()] as const
    const primary = await startPostgres({ port: ports[0] })
    const standby = await startPostgresStandby(primary, { port: ports[1] })
    const nodes = await Promise.all(NODE_NAMES.map((name) => ClusterNode.create(name, folder, ports, settings)))
    const [http, submission, inbound] = await Promise.all([startRelay(), startRelay(), startRelay()])
    return new TestCluster(nodes, { http, submission, inbound }, [primary, standby])
  }

  /** The node that became ready last. */
  get leader(): ClusterNode | undefined {
    const ready = this.nodes.filter(({ readySinceMs }) => readySinceMs !== undefined)
    return ready.toSorted((a, b) => Number(b.readySinceMs) - Number(a.readySinceMs))[0]
  }

  get url(): string {
    return `http://127.0.0.1:${this.front.http.port}`
  }

  get postgres(): Postgres {
    const server = this.#servers[this.#primary]
    if (!server) throw new Error('there is no primary')
    return server
  }

  node(name: NodeName): ClusterNode {
    const found = this.nodes.find((node) => node.name === name)
    if (!found) throw new Error(`there is no node ${name}`)
    return found
  }

  /** Resolves with what PostgreSQL says; undefined when no node has been there yet. */
  async readRow(): Promise<ClusterRow | undefined> {
    const [row] = await this.postgres
      .query('SELECT epoch::int, seq::int, leader, step_down AS "stepDown" FROM tassis_cluster')
      .catch(() => [undefined])
    return row as ClusterRow | undefined
  }

  async readNodes(): Promise<NodeRow[]> {
    const rows = await this.postgres.query('SELECT name, role, state, applied::int FROM tassis_nodes').catch(() => [])
    return rows as unknown as NodeRow[]
  }

  /** Resolves with the leader once there is one; throws after a time. */
  async waitForLeader(withinMs = 60_000): Promise<ClusterNode> {
    await waitFor(() => this.leader !== undefined, withinMs, 'no node is ready')
    return this.leader as ClusterNode
  }

  /** Resolves once every node runs, one leads, and the others follow it up to the end of the log. */
  async waitUntilWhole(withinMs: number): Promise<void> {
    let seen = ''
    const isWhole = async (): Promise<boolean> => {
      const [row, nodes] = await Promise.all([this.readRow(), this.readNodes()])
      seen = JSON.stringify({
        row,
        nodes,
        ready: this.nodes.filter((node) => node.readySinceMs).map(({ name }) => name),
      })
      if (!row || this.leader?.name !== row.leader) return false
      const others = nodes.filter(({ name }) => name !== row.leader)
      const areCurrent = others.every(({ state, applied }) => state === 'following' && applied >= row.seq)
      return others.length === this.nodes.length - 1 && areCurrent && this.nodes.every(({ isRunning }) => isRunning)
    }
    await waitFor(isWhole, withinMs, () => `the cluster is not whole: ${seen}`, 100)
  }

  /** Kills the primary of PostgreSQL and promotes its standby after a time. */
  async failPostgres(afterMs: number): Promise<void> {
    const dead = this.#primary
    await this.#servers[dead]?.[Symbol.asyncDispose]()
    this.#servers[dead] = undefined
    await Bun.sleep(afterMs)
    this.#primary = 1 - dead
    // The settings of the dead primary, which waited for a standby, are not copied to the standby.
    await this.postgres.promote()
  }

  /** Makes a new standby of PostgreSQL in the place of the dead server. */
  async rebuildPostgresStandby(): Promise<void> {
    const place = 1 - this.#primary
    const port = this.#ports[place]
    if (this.#servers[place] || port === undefined) return
    this.#servers[place] = await startPostgresStandby(this.postgres, { port })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#aiming)
    await Promise.all(this.nodes.map((node) => node[Symbol.asyncDispose]()))
    for (const relay of Object.values(this.front)) await relay[Symbol.asyncDispose]()
    for (const server of this.#servers) await server?.[Symbol.asyncDispose]()
  }
}

/** Resolves when the condition holds; throws with the problem after a time. */
export async function waitFor(
  condition: () => boolean | Promise<boolean>,
  withinMs: number,
  problem: string | (() => string),
  intervalMs = LOOK_INTERVAL_MS,
): Promise<void> {
  const end = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > end)
      throw new Error(`${typeof problem === 'string' ? problem : problem()}, ${withinMs / 1000} s later`)
    await Bun.sleep(intervalMs)
  }
}
