/** @module Numbers beside each other, each with its name. */
import { Text } from '@mantine/core'

export interface Figure {
  readonly label: string
  readonly count: number
  readonly note?: string
}

export const Figures = ({ figures }: { readonly figures: readonly Figure[] }) => (
  <div className="figures" style={{ width: '100%' }}>
    {figures.map(({ label, count, note }) => (
      <div key={label}>
        <Text size="sm">{label}</Text>
        <Text size="xl" fw={700}>
          {count.toLocaleString()}
        </Text>
        {note !== undefined && <Text size="sm">{note}</Text>}
      </div>
    ))}
  </div>
)
