/** @module The checks of a received message as a list: SPF, DKIM, DMARC, ARC, reverse DNS. */
import { Text } from '@mantine/core'
import { StateLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { type Check, type CheckedMessage, listChecks } from './proof.ts'

const COLUMNS: readonly Column<Check>[] = [
  { header: 'Check', width: '8rem', cell: ({ name }) => name },
  { header: 'Result', width: '9rem', phone: 'aside', cell: (check) => <StateLabel state={check} /> },
  { header: 'What it says', phone: 'bare', isWrapped: true, cell: ({ explanation }) => explanation },
]

export function Checks({ message }: { readonly message: CheckedMessage }) {
  const checks = listChecks(message)
  if (checks.length === 0) return <Text size="sm">This message was not checked.</Text>
  return <DataTable label="Checks of the sender" columns={COLUMNS} rows={checks} toKey={({ name }) => name} />
}
