/** @module Rows of records: a table on wide screens, cards on narrow ones. */
import { Table } from '@mantine/core'
import { useMediaQuery } from '@mantine/hooks'
import type { ReactNode } from 'react'
import { focusLastOpened, ROW_MARK } from './keyboard.tsx'

export interface Column<Row> {
  readonly header: string
  /** The first column has the link of the row. */
  cell(row: Row): ReactNode
  /** CSS width; the columns without one share the rest. */
  readonly width?: string
}

interface DataTableProps<Row> {
  /** Names the list for screen readers. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Whether the columns need more room than a tablet has. */
  readonly isWide?: boolean
  toKey(row: Row): string
}

/** Also narrow: a wide screen with large text, because media queries count in the browser's text size. */
const NARROW = '(max-width: 47.99em)'
const NARROW_FOR_WIDE = '(max-width: 63.99em)'

export function DataTable<Row>({ label, columns, rows, isWide = false, toKey }: DataTableProps<Row>) {
  const isNarrow = useMediaQuery(isWide ? NARROW_FOR_WIDE : NARROW, undefined, { getInitialValueInEffect: false })
  if (isNarrow)
    return (
      <ul ref={focusLastOpened} className="cards" aria-label={label}>
        {rows.map((row) => (
          <li key={toKey(row)} {...ROW_MARK}>
            <dl>
              {columns.map(({ header, cell }) => (
                <div key={header}>
                  <dt>{header}</dt>
                  <dd>{cell(row)}</dd>
                </div>
              ))}
            </dl>
          </li>
        ))}
      </ul>
    )
  return (
    <Table
      ref={focusLastOpened}
      className="data-table"
      aria-label={label}
      layout="fixed"
      verticalSpacing={6}
      highlightOnHover
    >
      <Table.Thead>
        <Table.Tr>
          {columns.map(({ header, width }) => (
            <Table.Th key={header} scope="col" {...(width !== undefined && { w: width })}>
              {header}
            </Table.Th>
          ))}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map((row) => (
          <Table.Tr key={toKey(row)} {...ROW_MARK}>
            {columns.map(({ header, cell }) => (
              <Table.Td key={header}>{cell(row)}</Table.Td>
            ))}
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  )
}
