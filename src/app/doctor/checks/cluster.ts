/** @module Checks of a cluster: its nodes, the key of this one, and what PostgreSQL does to keep commits. */
import { attempt } from '#platform/errors.ts'
import type { ClusterStatus } from '#platform/replication/cluster-status.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { findMissingKeys, readKeyText } from '../../backup/key.ts'
import { readClusterStatus } from '../../cluster/status.ts'
import {
  type DoctorContext,
  type Found,
  failure,
  failWithAdvice,
  type NewFinding,
  ok,
  skipped,
  warning,
} from '../context.ts'

export async function checkCluster({ config }: DoctorContext): Promise<Found> {
  if (config.replicate === '') return skipped('Not checked: this service runs alone.')
  const [{ Postgres, PostgresUnreachableError }, { ReplicationLog }] = await loadLog()
  const postgres = new Postgres(config.replicate)
  try {
    const status = await postgres.use(readClusterStatus)
    const row = await new ReplicationLog(postgres).readCluster()
    const found = listProblems(status)
    if (attempt(() => findMissingKeys(readKeyText(config), [row?.keyFingerprint ?? '']))?.length === 1)
      found.push(
        failure(
          'The master key of this node is not that of the cluster, so it cannot take over.',
          'Copy the master key file of the leader to this node.',
          'key',
        ),
      )
    if (/[?&]sslmode=(?:require|verify-ca)(?:&|$)/.test(config.replicate))
      found.push(
        warning(
          'The certificate of PostgreSQL is not verified, so another machine can pose as it.',
          'Put sslmode=verify-full into TASSIS_REPLICATE, and &sslrootcert= with the file of the authority that signed it.',
          'tls',
        ),
      )
    const { leader, nodes, postgres: server } = status
    return found.length > 0
      ? found
      : ok(`${leader} leads ${nodes.length} nodes; PostgreSQL ${server.version} keeps every commit.`)
  } catch (error) {
    if (error instanceof ConfigError)
      return failure(error.message, 'Correct TASSIS_REPLICATE or PostgreSQL: a node cannot join before.', 'postgres')
    if (!(error instanceof PostgresUnreachableError)) throw error
    return failure(`${error.message}.`, 'Until it answers, nodes accept and send nothing; see its log.', 'postgres')
  } finally {
    await postgres.close()
  }
}

/** Only a cluster needs them. */
export const loadLog = () =>
  Promise.all([import('#platform/replication/postgres.ts'), import('#platform/replication/log.ts')])

/** What asks for something, the worst first; of a node its name is the subject. */
export function listProblems({ leader, nodes, postgres }: ClusterStatus): NewFinding[] {
  const problems: NewFinding[] = []
  if (leader === null) {
    const fix = 'See the log of each node, and start those that do not run.'
    problems.push(failure('No node leads, so nothing is accepted or sent.', fix, 'leader'))
  }
  if (postgres.problem !== null) problems.push(failWithAdvice(postgres.problem, 'postgres'))
  const version = nodes.find(({ name }) => name === leader)?.version
  for (const { name, version: own } of nodes)
    if (version !== undefined && attempt(() => Bun.semver.order(own, version)) === -1) {
      const message = `The node ${name} has version ${own}, older than ${version} of the leader, so it cannot take over.`
      problems.push(failure(message, `Upgrade ${name}; next time upgrade the standbys first.`, name))
    }
  if (leader !== null && !nodes.some(({ state }) => state === 'following')) {
    const message = 'No standby follows: if the leader fails, mail stops until it is back.'
    problems.push(warning(message, 'Start one; docs/scaling.md says how to add it.', 'standby'))
  }
  for (const { name, role, state, seen_at: at } of nodes)
    if (state === 'lost' && role === 'standby') {
      const fix = 'Start it; one that never comes back is forgotten after a day.'
      problems.push(warning(`The node ${name} was last seen at ${at}.`, fix, name))
    }
  return problems
}
