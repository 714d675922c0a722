/** @module What a cluster costs: sending alone, and with every commit stored in PostgreSQL too. */
import { SQL } from 'bun'
import type { Benchmark } from '#bench/measure.ts'
import { runSending, SENDING_FIGURES } from '#bench/sending.ts'

/** @param url of a database of PostgreSQL, in which the tables of a cluster are dropped */
export const createReplicationBenchmark = (url: string, emails: number): Benchmark => ({
  name: 'replication',
  description: 'As `tassis bench`; CPU time is that of the service, without PostgreSQL, which shares this machine.',
  figures: SENDING_FIGURES,
  async prepare({ create, onCopy }) {
    const { dataDir, key } = await create('replication')
    const settings = { TASSIS_REPLICATE: url, TASSIS_NODE: 'bench' }
    return [
      { title: 'alone', run: () => onCopy(dataDir, (copy) => runSending(copy, key, emails)) },
      {
        title: 'replicated',
        run: async () => {
          await using sql = new SQL(url)
          await sql.unsafe(
            'DROP TABLE IF EXISTS tassis_cluster, tassis_log, tassis_nodes, tassis_snapshots, tassis_snapshot_parts CASCADE',
          )
          return onCopy(dataDir, (copy) => runSending(copy, key, emails, undefined, settings))
        },
      },
    ]
  },
})
