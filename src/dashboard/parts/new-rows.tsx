/** @module The button that offers new rows of a list. */
import { Button } from '@mantine/core'

interface NewRowsProps {
  readonly count: number
  /** Whether there may be more than were counted. */
  readonly hasMore?: boolean
  onShow(): void
}

/** Always in the page, so that screen readers announce a change and the list does not move. */
export const NewRows = ({ count, hasMore = false, onShow }: NewRowsProps) => (
  <div role="status" style={{ minHeight: '1.875rem' }}>
    {count > 0 && (
      <Button
        variant="light"
        size="xs"
        fullWidth
        onClick={() => {
          onShow()
          scrollTo({ top: 0 })
        }}
      >
        {count}
        {hasMore && '+'} new
      </Button>
    )}
  </div>
)
