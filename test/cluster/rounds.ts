/** @module What the cluster test does to the cluster: one function for each kind of round. */
import type { Random } from '#test/support/random.ts'
import { type TestCluster, waitFor } from './cluster.ts'
import type { ClusterNode } from './node.ts'

export const KINDS = ['kill', 'pause', 'cut', 'postgres', 'promotion', 'snapshot', 'step-down', 'stop'] as const
export type Kind = (typeof KINDS)[number]
/** Those that take the least time. */
export const SHORT_KINDS: readonly Kind[] = ['kill', 'pause', 'cut', 'postgres', 'step-down']

/** What a round needs of the program. */
export interface RoundContext {
  readonly cluster: TestCluster
  readonly random: Random
  readonly isShort: boolean
  /** Called at the moment at which the leader is disturbed. */
  disturbed(node: ClusterNode): void
  /** Resolves with the time from `sinceMs` to the first 202 of another node than these. */
  firstAccepted(sinceMs: number, not: ReadonlySet<ClusterNode>): Promise<number>
  problem(sentence: string): void
}

/** What is measured: how long no email was accepted. */
export interface RoundResult {
  readonly detail: string
  readonly outageMs?: number
}

/** Of a node that is empty, until it has begun to copy. */
const COPYING_WITHIN_MS = 30_000
const TAKEOVER_WITHIN_MS = 60_000
/** Afterwards the leader must have noticed that it is none. */
const FENCED_WITHIN_MS = 30_000

export const ROUNDS: Readonly<Record<Kind, (context: RoundContext, leader: ClusterNode) => Promise<RoundResult>>> = {
  async kill({ disturbed, firstAccepted }, leader) {
    disturbed(leader)
    const since = performance.now()
    await leader.kill()
    const outageMs = await firstAccepted(since, new Set([leader]))
    leader.start()
    return { detail: '', outageMs }
  },

  async pause({ cluster, random, isShort, disturbed, firstAccepted, problem }, leader) {
    const not = new Set([leader])
    const pausedMs = isShort ? 8000 : random.between(15_000, 60_000)
    disturbed(leader)
    const since = performance.now()
    leader.pause()
    const [outageMs] = await Promise.all([
      firstAccepted(since, not),
      Bun.sleep(pausedMs).then(() => {
        leader.resume()
        not.clear()
      }),
    ])
    await waitUntilFenced(cluster, leader, problem)
    return { detail: `paused for ${(pausedMs / 1000).toFixed(0)} s`, outageMs }
  },

  async cut({ cluster, random, isShort, disturbed, firstAccepted, problem }, leader) {
    const isLong = isShort || random.chance(0.6)
    const cutMs = isLong ? random.between(9000, 16_000) : random.between(300, 3000)
    const not = new Set(isLong ? [leader] : [])
    const isReset = random.chance(0.3)
    disturbed(leader)
    const since = performance.now()
    leader.cutFromPostgres()
    if (isReset) for (const relay of leader.relays) relay.drop()
    const [outageMs] = await Promise.all([
      firstAccepted(since, not),
      Bun.sleep(cutMs).then(() => {
        leader.healToPostgres()
        not.clear()
      }),
    ])
    if (isLong) await waitUntilFenced(cluster, leader, problem)
    const detail = `cut for ${(cutMs / 1000).toFixed(1)} s${isReset ? ', reset' : ''}`
    return isLong ? { detail, outageMs } : { detail: `${detail}, answered after ${outageMs.toFixed(0)} ms` }
  },

  async postgres({ cluster, random, disturbed, firstAccepted }, leader) {
    disturbed(leader)
    const since = performance.now()
    if (random.chance(0.25)) {
      const pausedMs = random.between(1000, 12_000)
      cluster.postgres.pause()
      await Bun.sleep(pausedMs)
      cluster.postgres.resume()
      const answeredMs = await firstAccepted(since, new Set())
      return { detail: `paused for ${pausedMs} ms, first 202 after ${answeredMs.toFixed(0)} ms` }
    }
    const killsLeader = random.chance(0.3)
    await Promise.all([cluster.failPostgres(random.between(0, 3000)), killsLeader && leader.kill()])
    const promotedMs = performance.now() - since
    const outageMs = await firstAccepted(since, new Set(killsLeader ? [leader] : []))
    await cluster.rebuildPostgresStandby()
    const detail = `promoted after ${promotedMs.toFixed(0)} ms, first 202 after ${outageMs.toFixed(0)} ms`
    return { detail: killsLeader ? `${detail}, leader killed` : detail }
  },

  async promotion({ cluster, random, disturbed, firstAccepted, problem }, leader) {
    const epoch = (await cluster.readRow())?.epoch ?? 0
    disturbed(leader)
    await leader.kill()
    await waitFor(
      async () => ((await cluster.readRow())?.epoch ?? 0) > epoch,
      TAKEOVER_WITHIN_MS,
      'no node has taken over',
    )
    await Bun.sleep(random.between(0, 800))
    const name = (await cluster.readRow())?.leader
    const second = cluster.nodes.find((node) => node.name === name)
    if (!second || second === leader) {
      problem(`${name} has taken over from itself while it was dead`)
      return { detail: '' }
    }
    disturbed(second)
    const since = performance.now()
    await second.kill()
    const outageMs = await firstAccepted(since, new Set([leader, second]))
    leader.start()
    second.start()
    return { detail: `${leader.name}, then ${second.name}`, outageMs }
  },

  async snapshot({ cluster, random, disturbed, firstAccepted, problem }, leader) {
    const empty = pick(
      random,
      cluster.nodes.filter((node) => node !== leader),
    )
    const killsLeader = random.chance(0.5)
    await empty.kill()
    empty.wipe()
    empty.start()
    const isCopying = async () =>
      (await cluster.readNodes()).some(({ name, state }) => name === empty.name && state === 'copying')
    const began = await waitFor(isCopying, COPYING_WITHIN_MS, `${empty.name} does not begin to copy`, 5).then(
      () => true,
      (error: Error) => problem(error.message),
    )
    await Bun.sleep(random.between(0, 300))
    if (!killsLeader) {
      await empty.kill()
      empty.start()
      return { detail: `${empty.name} killed while it ${began ? 'copied' : 'should copy'}` }
    }
    disturbed(leader)
    const since = performance.now()
    await leader.kill()
    const outageMs = await firstAccepted(since, new Set([leader]))
    leader.start()
    return { detail: `leader killed while ${empty.name} copied`, outageMs }
  },

  async 'step-down'({ cluster, random, disturbed, firstAccepted, problem }, leader) {
    const others = cluster.nodes.filter((node) => node !== leader)
    const to = random.chance(0.5) ? pick(random, others) : undefined
    disturbed(leader)
    const epoch = (await cluster.readRow())?.epoch
    const asked = pick(random, cluster.nodes).run('cluster', 'step-down', ...(to ? ['--to', to.name] : []))
    // The start of the command is not measured.
    const isAsked = async () => {
      const row = await cluster.readRow()
      return row !== undefined && (row.stepDown || row.epoch !== epoch)
    }
    await Promise.race([waitFor(isAsked, COPYING_WITHIN_MS, 'nobody was asked to step down'), asked])
    const outageMs = await firstAccepted(performance.now(), new Set([leader]))
    const { code, output } = await asked
    if (code !== 0) problem(`step-down ended with ${code}: ${output}`)
    const next = await cluster.waitForLeader()
    if (to && next !== to) problem(`${next.name} leads after a step-down to ${to.name}`)
    return { detail: to ? `to ${to.name}` : '', outageMs }
  },

  async stop({ disturbed, firstAccepted, problem }, leader) {
    disturbed(leader)
    const since = performance.now()
    const [code, outageMs] = await Promise.all([leader.stop(), firstAccepted(since, new Set([leader]))])
    if (code !== 0) problem(`the leader ended with ${code} when it was stopped`)
    leader.start()
    return { detail: '', outageMs }
  },
}

const pick = <T>(random: Random, few: readonly T[]): T => few[random.between(0, few.length - 1)] as T

/** Waits until a former leader says itself that it does not lead. */
async function waitUntilFenced(
  cluster: TestCluster,
  node: ClusterNode,
  problem: (sentence: string) => void,
): Promise<void> {
  const isFenced = async () =>
    (await cluster.readRow())?.leader === node.name ||
    (await fetch(`${node.url}/readyz`, { signal: AbortSignal.timeout(1000) }).then(
      ({ status }) => status === 503,
      () => false,
    ))
  await waitFor(isFenced, FENCED_WITHIN_MS, `${node.name} has lost the lead and does not say so`).catch(
    (error: Error) => problem(error.message),
  )
}
