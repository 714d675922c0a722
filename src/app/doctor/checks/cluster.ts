/** @module Checks of a cluster: its nodes, the key of this one, and what PostgreSQL does to keep commits. */
import { attempt } from '#platform/attempt.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { findMissingKeys, readKeyText } from '../../backup/key.ts'
import { listProblems, readClusterStatus } from '../../cluster/status.ts'
import { type DoctorContext, type Found, failure, ok, skipped, warning } from '../context.ts'

export async function checkCluster({ config }: DoctorContext): Promise<Found> {
  if (config.replicate === '') return skipped('Not checked: this service runs alone.')
  const { Postgres, PostgresUnreachableError } = await import('#platform/replication/postgres.ts')
  const postgres = new Postgres(config.replicate)
  try {
    const status = await postgres.use(readClusterStatus)
    const [row] = await postgres.query<{ key: string }>('SELECT key_fingerprint AS key FROM tassis_cluster')
    const found = listProblems(status).map(({ isFailure, message, fix, subject }) =>
      (isFailure ? failure : warning)(message, fix, subject),
    )
    if (attempt(() => findMissingKeys(readKeyText(config), [row?.key ?? '']))?.length === 1)
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
          'Put sslmode=verify-full into TASSIS_REPLICATE.',
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
