/** @module Rows of records: a table on wide screens, rows of two lines on narrow ones. */
import { useMediaQuery } from '@mantine/hooks'
import type { ReactNode } from 'react'
import { focusLastOpened, ROW_MARK } from './keyboard.tsx'

export interface Column<Row> {
  readonly header: string
  /** The first column has the link of the row: `NameLink`. */
  cell(row: Row): ReactNode
  /** CSS width; the columns without one share the rest. */
  readonly width?: string
  /** Whether it may need more than one line; otherwise what does not fit is cut. */
  readonly isWrapped?: boolean
  readonly isNumeric?: boolean
  /** On a phone: at the end of a line, below the first without or (default) with its header, or not at all. */
  readonly phone?: 'aside' | 'bare' | 'none'
}

type Look = Omit<Column<unknown>, 'header' | 'cell'>

/** A row of a table of columns: the header, how the column looks, and its cell. */
export const column = <Row,>(header: string, look: Look, cell: Column<Row>['cell']): Column<Row> => ({
  header,
  ...look,
  cell,
})

interface DataTableProps<Row> {
  /** Names the list for screen readers. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Whether the columns need more room than a tablet has. */
  readonly isWide?: boolean
  /** Default: its id. */
  toKey?(row: Row): string
  /** Attributes of its row. */
  toMarks?(row: Row): Readonly<Record<`data-${string}`, string>>
}

export const toId = (row: unknown): string => String(Reflect.get(Object(row), 'id'))

/** Also narrow: a wide screen with large text, because media queries count in the browser's text size. */
const NARROW = '(max-width: 47.99em)'
const NARROW_FOR_WIDE = '(max-width: 63.99em)'

export function DataTable<Row>(props: DataTableProps<Row>) {
  const { label, columns, rows, isWide = false, toKey = toId, toMarks } = props
  const isNarrow = useMediaQuery(isWide ? NARROW_FOR_WIDE : NARROW, undefined, { getInitialValueInEffect: false })
  if (isNarrow)
    return (
      <ul ref={focusLastOpened} className="rows" aria-label={label}>
        {rows.map((row) => (
          <li key={toKey(row)} {...ROW_MARK} {...toMarks?.(row)}>
            <TwoLines columns={columns} row={row} />
          </li>
        ))}
      </ul>
    )
  return (
    <table ref={focusLastOpened} className="data-table" aria-label={label}>
      <thead>
        <tr>
          {columns.map(({ header, width, isNumeric }) => (
            <th
              key={header}
              scope="col"
              data-numeric={isNumeric || undefined}
              {...(width !== undefined && { style: { width } })}
            >
              {header}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={toKey(row)} {...ROW_MARK} {...toMarks?.(row)}>
            {columns.map(({ header, cell, isWrapped, isNumeric }) => (
              <td key={header} data-wraps={isWrapped || undefined} data-numeric={isNumeric || undefined}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function TwoLines<Row>({
  columns: [first, ...others],
  row,
}: {
  readonly columns: readonly Column<Row>[]
  readonly row: Row
}) {
  const status = others.find(({ header, phone }) => header === 'Status' && phone !== 'none')
  const aside = others.filter(({ phone }) => phone === 'aside')
  const below = others.filter((column) => column !== status && (column.phone === undefined || column.phone === 'bare'))
  // Where there is a status, it is at the end of the first line, and what else would be there is below it.
  const end = status ? aside.filter((column) => column !== status) : []
  return (
    <>
      <div className="row-first">{first?.cell(row)}</div>
      {(status ? [status] : aside).map(({ header, cell }) => (
        <div key={header} className="row-aside">
          {cell(row)}
        </div>
      ))}
      {below.length + end.length > 0 && (
        <div className="row-more">
          <div className="row-text">
            {below.map(({ header, cell, phone, isWrapped }) => {
              const content = cell(row)
              return content === null || content === false || content === '' ? null : (
                <div key={header} data-wraps={isWrapped || undefined}>
                  <span className={phone === 'bare' ? 'visually-hidden' : undefined}>{header}: </span>
                  {content}
                </div>
              )
            })}
          </div>
          {end.map(({ header, cell }) => (
            <div key={header}>{cell(row)}</div>
          ))}
        </div>
      )}
    </>
  )
}
