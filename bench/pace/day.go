package pace

import (
	"slices"
	"time"
)

const (
	hours  = 24
	perDay = 288 // pieces of five minutes
	inHour = perDay / hours
)

// hourly is how busy the hours of a day are beside each other, from midnight.
var hourly = [hours]int64{
	420, 300, 220, 180, 180, 240, 400, 640, 900, 1100, 1150, 1150,
	1200, 1100, 1050, 1050, 1050, 1050, 1100, 1250, 1300, 1150, 850, 600,
}

// peaks are five minutes each, by the hour that they begin: the morning's opening, a sale
// at noon, the evening's final.
var peaks = [hours]int64{9: 10_000, 12: 20_000, 20: 26_000}

// before is how busy the day has been when a piece begins, in the units of hourly; the
// last is the whole day.
var before = func() (sum [perDay + 1]int64) {
	for i := range perDay {
		w := hourly[i/inHour]
		if i%inHour == 0 && peaks[i/inHour] > 0 {
			w = peaks[i/inHour]
		}
		sum[i+1] = sum[i] + w
	}
	return sum
}()

// PeakOfDay is the highest rate of a day in parts of its mean rate.
func PeakOfDay() float64 {
	most := int64(0)
	for i := range perDay {
		most = max(most, before[i+1]-before[i])
	}
	return float64(most) * perDay / float64(before[perDay])
}

// dayGroups is the number of groups of a day.
func (s Schedule) dayGroups() int64 {
	return max(1, mulDiv(s.Rate, int64(s.Day), int64(time.Second))/s.Batch)
}

// inDay is the intended time of group i of a day: within a piece they come evenly.
func (s Schedule) inDay(i int64) int64 {
	all, day := s.dayGroups(), i/s.dayGroups()
	i %= all
	first := func(piece int) int64 { return mulDiv(all, before[piece], before[perDay]) }
	// The piece is the last one that begins with this group or before it: pieces may have
	// no group.
	piece, _ := slices.BinarySearchFunc(pieces[:], i, func(piece int, i int64) int {
		if first(piece+1) <= i {
			return -1
		}
		return 1
	})
	from, to := mulDiv(int64(s.Day), int64(piece), perDay), mulDiv(int64(s.Day), int64(piece+1), perDay)
	return day*int64(s.Day) + from + mulDiv(i-first(piece), to-from, first(piece+1)-first(piece))
}

// pieces are the numbers of the pieces of a day.
var pieces = func() (all [perDay]int) {
	for i := range all {
		all[i] = i
	}
	return all
}()
