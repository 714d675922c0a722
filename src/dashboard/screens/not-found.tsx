import { ButtonLink } from '../parts/links.tsx'
import { EmptyState, Page } from '../parts/page.tsx'

export const NotFound = () => (
  <Page title="No such page">
    <EmptyState
      title="Nothing is at this address"
      text="A link may be old or cut. The search above finds every screen and setting."
    >
      <ButtonLink to="/" variant="default">
        Overview
      </ButtonLink>
    </EmptyState>
  </Page>
)
