import { Text } from '@mantine/core'
import { Page } from '../parts/page.tsx'

export const EmailsScreen = () => (
  <Page title="Emails">
    <Text>Nothing here yet.</Text>
  </Page>
)
