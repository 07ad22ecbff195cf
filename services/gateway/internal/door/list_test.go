package door_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
)

// What waits in other projects, however much, hides nothing from whoever sees one.
func TestManyOfOtherProjectsHideNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for i := range 1001 {
		r := bash("talk", fmt.Sprintf("toolu_%d", i))
		r.ProjectID = "bank"
		h.fake.ask(r)
	}
	r := bash("talk", "toolu_last")
	r.ProjectID = "shop"
	last := h.fake.ask(r)
	h = h.as(h.user("eve", grant(wire.RoleApprover, "shop")))
	status, raw := h.get("/api/interactions")
	require.Equal(t, http.StatusOK, status, string(raw))
	var got wire.ListReply
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Len(t, got.Interactions, 1)
	require.Equal(t, last.req.ID, got.Interactions[0].ID)
	require.Empty(t, got.Next)
}

func TestAListHasPages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var want, got []string
	for i := range 7 {
		r := bash("talk", fmt.Sprintf("toolu_%d", i))
		r.ProjectID = []string{"bank", "shop"}[i%2]
		if a := h.fake.ask(r); r.ProjectID == "bank" {
			want = append(want, a.req.ID)
		}
	}
	h = h.as(h.user("eve", grant(wire.RoleApprover, "bank")))
	after := ""
	for range 2 {
		status, raw := h.get("/api/interactions?limit=2&after=" + url.QueryEscape(after))
		require.Equal(t, http.StatusOK, status, string(raw))
		var page wire.ListReply
		require.NoError(t, json.Unmarshal(raw, &page))
		require.Len(t, page.Interactions, 2)
		for _, ix := range page.Interactions {
			got = append(got, ix.ID)
		}
		after = page.Next
	}
	require.Equal(t, want, got)
	require.Empty(t, after, "there are no more")
	status, raw := h.get("/api/interactions?after=x")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, string(raw), `"field":"after"`)
}
